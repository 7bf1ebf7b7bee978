//! From the block to the implementation of the trait.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, Path, Result, ReturnType,
    Token, parse::Parser,
};

use crate::handlers::{Handler, find, signature, unknown};

/// Expands the attribute; what is wrong becomes errors beside the block.
pub(crate) fn plugin(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let block: ItemImpl = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(error) => {
            let text = format!("#[plugin] stands before an impl block: {error}");
            let error = Error::new(error.span(), text).into_compile_error();
            return quote!(#item #error);
        }
    };
    let mut faults = Faults::default();
    let stub = faults
        .keep(stub_path(arguments))
        .unwrap_or_else(default_path);
    if let Some((_, path, _)) = &block.trait_ {
        let text = "#[plugin] stands before `impl Type`, and implements the trait itself";
        faults.add(Error::new(path.span(), text));
        return faults.beside(&block);
    }
    let methods: Vec<Method<'_>> = block
        .items
        .iter()
        .filter_map(|item| faults.keep(Method::of(item)))
        .collect();
    let subscribes = methods.iter().any(|method| method.handler.event.is_some());
    if !subscribes && faults.is_empty() {
        let text = "the plugin handles no event, so no runtime would accept it";
        faults.add(Error::new(block.self_ty.span(), text));
    }
    let implementation = implementation(&block, &stub, &methods);
    let beside = faults.beside(&block);
    quote!(#beside #implementation)
}

fn implementation(block: &ItemImpl, stub: &Path, methods: &[Method<'_>]) -> TokenStream {
    let (generics, _, conditions) = block.generics.split_for_impl();
    let kind = &block.self_ty;
    let conditional: Vec<&Attribute> = cfg_attributes(&block.attrs);
    let events = methods.iter().filter_map(|method| {
        let event = Ident::new(method.handler.event?, Span::call_site());
        let conditional = cfg_attributes(&method.function.attrs);
        Some(quote! {
            #(#conditional)*
            let events = events | #stub::api::EventMask::of(#stub::api::Event::#event);
        })
    });
    let functions = methods.iter().map(|method| method.forward(stub));
    quote! {
        #(#conditional)*
        #[automatically_derived]
        impl #generics #stub::Plugin for #kind #conditions {
            fn events(&self) -> #stub::api::EventMask {
                let events = #stub::api::EventMask::NONE;
                #(#events)*
                events
            }
            #(#functions)*
        }
    }
}

/// `crate = path`, or nothing.
fn stub_path(arguments: TokenStream) -> Result<Path> {
    if arguments.is_empty() {
        return Ok(default_path());
    }
    let parser = |input: syn::parse::ParseStream<'_>| {
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        Path::parse_mod_style(input)
    };
    parser.parse2(arguments).map_err(|error| {
        Error::new(
            error.span(),
            "expected nothing, or `crate = path::of::stub`",
        )
    })
}

fn default_path() -> Path {
    syn::parse_quote!(::longshore_nri_stub)
}

fn cfg_attributes(attributes: &[Attribute]) -> Vec<&Attribute> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .collect()
}

/// A function of the block that is a handler.
struct Method<'a> {
    handler: &'static Handler,
    function: &'a ImplItemFn,
}

impl<'a> Method<'a> {
    fn of(item: &'a ImplItem) -> Result<Self> {
        let ImplItem::Fn(function) = item else {
            let text = "only handlers belong into the block of a plugin";
            return Err(Error::new(item.span(), text));
        };
        let own = &function.sig.ident;
        let handler = find(&own.to_string())
            .ok_or_else(|| Error::new(own.span(), unknown(&own.to_string())))?;
        let wrong = |span: Span, text: &str| {
            Err(Error::new(
                span,
                format!("{text}; expected `{}`", signature(handler)),
            ))
        };
        let parts = &function.sig;
        if parts.asyncness.is_none() {
            return wrong(parts.fn_token.span(), "a handler is an async function");
        }
        if let Some(unsafety) = &parts.unsafety {
            return wrong(unsafety.span(), "a handler is not unsafe");
        }
        if !parts.generics.params.is_empty() {
            return wrong(
                parts.generics.span(),
                "a handler has no parameters of types",
            );
        }
        match parts.inputs.first() {
            Some(FnArg::Receiver(receiver))
                if receiver.reference.is_some() && receiver.mutability.is_none() => {}
            Some(FnArg::Receiver(receiver)) => {
                return wrong(
                    receiver.span(),
                    "handlers run side by side, so each takes `&self`: put what changes behind \
                     a Mutex or an atomic",
                );
            }
            _ => return wrong(own.span(), "a handler takes `&self`"),
        }
        let found = parts.inputs.len() - 1;
        if found != handler.arguments.len() {
            let expected = handler.arguments.len();
            let text = format!("{expected} arguments after `&self` are expected, not {found}");
            return wrong(parts.inputs.span(), &text);
        }
        Ok(Self { handler, function })
    }

    /// The method of the trait that calls the function. What does not fit is reported where the
    /// function has it.
    fn forward(&self, stub: &Path) -> TokenStream {
        let Self { handler, function } = self;
        let name = &function.sig.ident;
        let conditional = cfg_attributes(&function.attrs);
        let kinds = handler.arguments.iter().map(|(_, kind)| within(stub, kind));
        let names: Vec<Ident> = (0..handler.arguments.len())
            .map(|n| format_ident!("argument_{n}"))
            .collect();
        let passed = names
            .iter()
            .zip(function.sig.inputs.iter().skip(1))
            .map(|(name, input)| {
                let span = match input {
                    FnArg::Typed(typed) => typed.ty.span(),
                    FnArg::Receiver(receiver) => receiver.span(),
                };
                Ident::new(&name.to_string(), Span::call_site().located_at(span))
            });
        let answer = within(stub, handler.answer);
        let span = match &function.sig.output {
            ReturnType::Type(_, kind) => kind.span(),
            ReturnType::Default => name.span(),
        };
        let convert = quote!(#stub::IntoAnswer::<#answer>::into_answer(answer));
        let convert = located(convert, span);
        quote! {
            #(#conditional)*
            async fn #name(&self, #(#names: #kinds),*) -> #stub::HandlerResult<#answer> {
                let answer = Self::#name(self, #(#passed),*).await;
                #convert
            }
        }
    }
}

/// A path of the table, within the stub.
fn within(stub: &Path, path: &str) -> TokenStream {
    let parts = path
        .split("::")
        .map(|part| Ident::new(part, Span::call_site()));
    quote!(#stub #(::#parts)*)
}

/// The same tokens, which are reported where `span` is.
fn located(tokens: TokenStream, span: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            if let TokenTree::Group(group) = &token {
                let inside = located(group.stream(), span);
                token = Group::new(group.delimiter(), inside).into();
            }
            token.set_span(token.span().located_at(span));
            token
        })
        .collect()
}

/// All that is wrong with a block.
#[derive(Default)]
struct Faults(Option<Error>);

impl Faults {
    fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    fn keep<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn beside(self, block: &ItemImpl) -> TokenStream {
        let errors = self.0.map(Error::into_compile_error);
        quote!(#block #errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages of the errors that an expansion holds.
    fn errors(arguments: TokenStream, item: TokenStream) -> Vec<String> {
        let file: syn::File = syn::parse2(plugin(arguments, item)).expect("valid Rust");
        let messages = file.items.into_iter().filter_map(|item| match item {
            syn::Item::Macro(item) if item.mac.path.segments.last()?.ident == "compile_error" => {
                let text: syn::LitStr = item.mac.parse_body().ok()?;
                Some(text.value())
            }
            _ => None,
        });
        messages.collect()
    }

    #[test]
    fn a_block_becomes_an_implementation_with_its_events() {
        let item = quote! {
            impl<T: Send> Tuner<T> where T: Sync {
                async fn create_container(&self, pod: PodSandbox, _: Container) -> Answer { todo() }
                #[cfg(feature = "pods")]
                async fn run_pod_sandbox(&self, pod: PodSandbox) {}
                async fn shutdown(&self) {}
            }
        };
        assert_eq!(errors(TokenStream::new(), item.clone()), [""; 0]);
        let text = plugin(TokenStream::new(), item)
            .to_string()
            .replace(' ', "");
        for expected in [
            "impl<T:Send>Tuner<T>whereT:Sync{",
            "impl<T:Send>::longshore_nri_stub::PluginforTuner<T>whereT:Sync{",
            "Event::CreateContainer)",
            "#[cfg(feature=\"pods\")]letevents=",
            "#[cfg(feature=\"pods\")]asyncfnrun_pod_sandbox(&self,argument_0:",
            "asyncfnshutdown(&self,)",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(!text.contains("StopContainer"), "{text}");
    }

    #[test]
    fn the_path_of_the_stub_can_be_given() {
        let item = quote!(impl T { async fn run_pod_sandbox(&self, p: P) {} });
        let text = plugin(quote!(crate = my::stub), item.clone()).to_string();
        assert!(text.contains("impl my :: stub :: Plugin for T"), "{text}");
        let wrong = errors(quote!(name = "x"), item);
        assert!(wrong[0].contains("crate = path"), "{wrong:?}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let table: [(TokenStream, &[&str]); 12] = [
            (
                quote!(
                    struct X;
                ),
                &["stands before an impl block"],
            ),
            (
                quote!(impl Plugin for X {}),
                &["implements the trait itself"],
            ),
            (quote!(impl X {}), &["handles no event"]),
            (
                quote!(impl X { async fn shutdown(&self) {} }),
                &["handles no event"],
            ),
            (
                quote!(impl X { async fn creat_container(&self) {} fn helper() {} }),
                &["did you mean `create_container`?", "`helper` is no handler"],
            ),
            (quote!(impl X { const N: u8 = 1; }), &["only handlers"]),
            (
                quote!(impl X { fn run_pod_sandbox(&self, pod: PodSandbox) {} }),
                &["async function; expected `async fn run_pod_sandbox(&self, pod: PodSandbox)"],
            ),
            (
                quote!(impl X { async fn run_pod_sandbox(&mut self, pod: PodSandbox) {} }),
                &["side by side"],
            ),
            (
                quote!(impl X { async fn run_pod_sandbox(self, pod: PodSandbox) {} }),
                &["side by side"],
            ),
            (
                quote!(impl X { async fn run_pod_sandbox(pod: PodSandbox) {} }),
                &["takes `&self`"],
            ),
            (
                quote!(impl X { async fn create_container(&self, container: Container) {} }),
                &["2 arguments after `&self` are expected, not 1"],
            ),
            (
                quote!(impl X { async fn run_pod_sandbox<T>(&self, pod: T) {} }),
                &["no parameters of types"],
            ),
        ];
        for (item, expected) in table {
            let found = errors(TokenStream::new(), item.clone());
            assert_eq!(found.len(), expected.len(), "{item}: {found:#?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.contains(expected), "{item}: {found}");
            }
        }
    }
}
